"""The functions of PostgreSQL, MySQL and SQLite that compute from their arguments or only look."""

from __future__ import annotations

__all__ = ["FUNCTIONS", "REFUSED"]

_AGGREGATES = """
    array_agg avg bit_and bit_or bool_and bool_or corr count count_big cume_dist dense_rank every
    first_value group_concat json_agg json_arrayagg json_object_agg json_objectagg jsonb_agg
    jsonb_object_agg lag last_value lead max min mode nth_value ntile percent_rank percentile_cont
    percentile_disc rank regr_count row_number std stddev stddev_pop stddev_samp string_agg sum
    total var_pop var_samp variance grouping
"""
_TEXT = """
    ascii bin bit_length btrim char_length character_length chr concat concat_ws elt field
    find_in_set format hex initcap insert instr lcase left length lower lpad ltrim md5 mid
    octet_length ord position quote quote_ident quote_literal quote_nullable regexp_count
    regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regexp_substr replace reverse right rpad rtrim sha1 sha2 sha256 soundex
    split_part starts_with strcmp string_to_array strpos substr substring substring_index to_hex
    translate trim typeof ucase unhex unicode unistr upper encode decode convert_from glob like
    printf quote overlay inet_aton inet_ntoa inet6_aton inet6_ntoa is_ipv4 is_ipv6
"""
_NUMBERS = """
    abs acos asin atan atan2 cbrt ceil ceiling cos cot crc32 degrees div exp floor gcd greatest lcm
    least ln log log10 log2 mod pi pow power radians rand random round scale sign sin sqrt tan
    trunc width_bucket conv
"""
_TIMES = """
    adddate addtime age clock_timestamp convert_tz curdate curtime date date_add date_bin
    date_diff date_format date_part date_sub date_trunc datediff datetime day dayname dayofmonth
    dayofweek dayofyear extract from_days from_unixtime get_format hour isfinite julianday
    justify_days justify_hours justify_interval last_day localtime localtimestamp make_date
    make_interval make_time make_timestamp make_timestamptz microsecond minute month monthname now
    period_add period_diff quarter sec_to_time second statement_timestamp str_to_date strftime
    subdate subtime sysdate time time_format time_to_sec timediff timeofday timestamp timestampadd
    timestampdiff to_char to_date to_days to_number to_seconds to_timestamp transaction_timestamp
    unix_timestamp unixepoch utc_date utc_time utc_timestamp week weekday weekofyear year yearweek
    current_date current_time current_timestamp
"""
_VALUES = """
    any_value cast coalesce convert if ifnull iif isnull nullif nvl num_nonnulls num_nulls row
    array_length array_lower array_ndims array_position array_positions array_remove
    array_to_json array_to_string array_upper array_cat array_append cardinality generate_series
    generate_subscripts unnest host family masklen netmask network set_masklen broadcast abbrev
    inet_same_family uuid uuid_to_bin bin_to_uuid bin_to_num
"""
_JSON = """
    json_array json_array_elements json_array_elements_text json_array_length json_arrayagg
    json_build_array json_build_object json_contains json_contains_path json_depth json_each
    json_each_text json_exists json_extract json_extract_path json_extract_path_text json_keys
    json_length json_object json_object_keys json_overlaps json_pretty json_query json_quote
    json_search json_strip_nulls json_table json_to_record json_to_recordset json_tree json_type
    json_typeof json_unquote json_valid json_value jsonb_array_elements jsonb_array_elements_text
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
    jsonb_exists jsonb_extract_path jsonb_extract_path_text jsonb_object_keys jsonb_path_exists
    jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_pretty
    jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof row_to_json to_json to_jsonb
"""
_SERVER = """
    connection_id current_catalog current_database current_query current_role current_schema
    current_schemas current_setting current_user database found_rows inet_client_addr
    inet_client_port inet_server_addr inet_server_port row_count schema session_user system_user
    user version sqlite_version changes total_changes last_insert_rowid
"""
_CATALOG = """
    col_description format_type has_any_column_privilege has_column_privilege
    has_database_privilege has_function_privilege has_schema_privilege has_sequence_privilege
    has_table_privilege has_tablespace_privilege obj_description shobj_description pg_has_role
    pg_backend_pid pg_blocking_pids pg_char_to_encoding pg_client_encoding pg_collation_for
    pg_column_compression pg_column_size pg_conf_load_time pg_control_checkpoint pg_control_init
    pg_control_recovery pg_control_system pg_current_logfile pg_current_snapshot
    pg_current_wal_flush_lsn pg_current_wal_insert_lsn pg_current_wal_lsn
    pg_current_xact_id_if_assigned pg_database_size pg_describe_object pg_encoding_to_char
    pg_filenode_relation pg_function_is_visible pg_get_backend_memory_contexts pg_get_constraintdef
    pg_get_expr pg_get_function_arguments pg_get_function_identity_arguments
    pg_get_function_result pg_get_functiondef pg_get_indexdef pg_get_keywords pg_get_partkeydef
    pg_get_replication_slots pg_get_ruledef pg_get_serial_sequence pg_get_triggerdef
    pg_get_userbyid pg_get_viewdef pg_get_wal_replay_pause_state pg_identify_object
    pg_index_column_has_property pg_indexes_size pg_is_in_recovery pg_is_other_temp_schema
    pg_is_wal_replay_paused pg_isolation_test_session_is_blocked pg_jit_available
    pg_last_committed_xact pg_last_wal_receive_lsn pg_last_wal_replay_lsn
    pg_last_xact_replay_timestamp pg_lock_status pg_ls_archive_statusdir pg_ls_logdir pg_ls_tmpdir
    pg_ls_waldir pg_lsn pg_my_temp_schema pg_notification_queue_usage pg_options_to_table
    pg_partition_ancestors pg_partition_root pg_partition_tree pg_postmaster_start_time
    pg_relation_filenode pg_relation_filepath pg_relation_size pg_safe_snapshot_blocking_pids
    pg_sequence_last_value pg_show_all_settings pg_size_bytes pg_size_pretty pg_stat_statements
    pg_stat_statements_info pg_table_is_visible pg_table_size pg_tablespace_databases
    pg_tablespace_location pg_tablespace_size pg_timezone_names pg_total_relation_size
    pg_trigger_depth pg_type_is_visible pg_typeof pg_wal_lsn_diff pg_walfile_name
    pg_walfile_name_offset pg_xact_commit_timestamp pgstatindex pgstattuple pgstattuple_approx
    to_regclass to_regnamespace to_regproc to_regrole to_regtype mxid_age txid_current_if_assigned
    row_security_active format_bytes format_pico_time
"""
_STATISTICS = """
    activity backend_activity backend_client_addr backend_pid backend_start backend_userid
    backend_idset db_numbackends db_xact_commit db_xact_rollback db_deadlocks db_conflict_all
    blocks_fetched blocks_hit dead_tuples live_tuples tuples_inserted tuples_updated tuples_deleted
    numscans last_vacuum_time last_autovacuum_time last_analyze_time last_autoanalyze_time
    replication_slot progress_info wal wal_receiver wal_senders archiver slru io ins_since_vacuum
    mod_since_analyze
"""

# `insert` and `replace` are here as functions of strings: they need their parenthesis.
FUNCTIONS: frozenset[str] = frozenset(
    " ".join((_AGGREGATES, _TEXT, _NUMBERS, _TIMES, _VALUES, _JSON, _SERVER, _CATALOG)).split()
) - {"insert"} | frozenset(f"pg_stat_get_{name}" for name in _STATISTICS.split())

REFUSED: dict[str, str] = {
    "benchmark": "The function 'benchmark' only wastes processor time of the server.",
    "dblink": "!The function 'dblink' runs a statement on another server.",
    "dblink_exec": "!The function 'dblink_exec' runs a statement on another server.",
    "get_lock": "The function 'get_lock' takes a lock that others wait for.",
    "lo_export": "!The function 'lo_export' writes a file on the server.",
    "lo_import": "!The function 'lo_import' reads a file of the server into the database.",
    "lo_unlink": "!The function 'lo_unlink' deletes a large object.",
    "load_extension": "!The function 'load_extension' runs code from a file.",
    "load_file": "?The function 'load_file' reads any file of the server.",
    "nextval": "The function 'nextval' advances a sequence.",
    "pg_cancel_backend": "!The function 'pg_cancel_backend' cancels the query of another session.",
    "pg_ls_dir": "?The function 'pg_ls_dir' lists any folder of the server.",
    "pg_promote": "!The function 'pg_promote' turns a standby into a primary.",
    "pg_read_binary_file": "?The function 'pg_read_binary_file' reads a file of the server.",
    "pg_read_file": "?The function 'pg_read_file' reads a file of the server.",
    "pg_reload_conf": "The function 'pg_reload_conf' makes the server read its settings again.",
    "pg_rotate_logfile": "The function 'pg_rotate_logfile' starts a new log file.",
    "pg_sleep": "The function 'pg_sleep' holds a connection and does nothing.",
    "pg_stat_reset": "The function 'pg_stat_reset' erases the statistics.",
    "pg_stat_statements_reset": "The function 'pg_stat_statements_reset' erases the statistics.",
    "pg_switch_wal": "The function 'pg_switch_wal' starts a new segment of the log.",
    "pg_terminate_backend": "!The function 'pg_terminate_backend' terminates another session.",
    "query_to_xml": "!The function 'query_to_xml' runs a statement that is hidden in a string.",
    "readfile": "?The function 'readfile' reads any file.",
    "set_config": "The function 'set_config' changes a setting.",
    "setval": "The function 'setval' changes a sequence.",
    "sleep": "The function 'sleep' holds a connection and does nothing.",
    "sys_eval": "!The function 'sys_eval' runs a command on the server.",
    "sys_exec": "!The function 'sys_exec' runs a command on the server.",
    "writefile": "!The function 'writefile' writes a file.",
}
