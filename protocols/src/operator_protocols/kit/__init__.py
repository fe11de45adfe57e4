"""What a subject is built from, once for all of them: clients, options, verdicts, tools, data.

Loading any of it needs the standard library only. `http` needs h11 when it is used and `sql`
psycopg; a plug-in asks for them by the extras of `operator-protocols`.
"""
