# One broker of a rig: `broker.sh prepare|run JAVA JARS DIRECTORY DATA NODE`.
set -eu
task=$1 java=$2 jars=$3 home=$4 data=$5 node=$6
archive="$jars/classes.jsa"
patience=${PATIENCE:-450}  # fifths of a second: a busy machine starts a broker slowly
options="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto"
options="$options -Dorg.slf4j.simpleLogger.showDateTime=true"
options="$options -Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ"

# An archive of loaded classes makes every later start faster. One rig makes it, and none needs it.
make_archive() {
    [ "$node" = 1 ] && [ ! -e "$archive" ] || return 0
    # A lock that is old was left by a rig that was killed.
    find "$jars/archive.lock" -maxdepth 0 -mmin +5 -exec rm -rf {} + 2>/dev/null || true
    mkdir "$jars/archive.lock" 2>/dev/null || return 0
    half="$jars/archive.lock/classes.jsa" place="$home/archive"
    trap 'rm -rf "$jars/archive.lock" "$place"' EXIT
    mkdir -p "$place"
    sed -e "s|^log.dirs=.*|log.dirs=$place/data|" -e "s|^\(controller.quorum.voters=[^,]*\).*|\1|" \
        -e 's|^offsets.topic.replication.factor=.*|offsets.topic.replication.factor=1|' \
        "$home/server.properties" > "$place/server.properties"
    own=$(sed -n 's|^listeners=.*CONTROLLER://||p' "$home/server.properties")
    sed -i "s|^controller.quorum.voters=.*|controller.quorum.voters=1@$own|" \
        "$place/server.properties"
    write_identity "$place/data"
    $java -Xmx160m $options -XX:ArchiveClassesAtExit="$half" -cp "$jars/*" kafka.Kafka \
        "$place/server.properties" > "$place/broker.log" 2>&1 &
    broker=$! turns=0
    until grep -qs 'Kafka Server started' "$place/broker.log" || [ $turns -gt "$patience" ]; do
        sleep 0.2
        turns=$((turns + 1))
    done
    kill $broker 2>/dev/null || true
    (sleep 60 && kill -9 $broker) 2>/dev/null &
    wait $broker || true
    kill $! 2>/dev/null || true
    [ ! -s "$half" ] || mv "$half" "$archive"
}

# What `kafka-storage format` writes, without the start of a program for it.
write_identity() {
    mkdir -p "$1"
    [ -e "$1/meta.properties" ] || cat > "$1/meta.properties" <<EOF
version=1
cluster.id=$(cat "$home/cluster.id")
node.id=$node
directory.id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c 1-22)
EOF
}

if [ "$task" = prepare ]; then
    make_archive || true
    write_identity "$data/log"
else
    [ ! -e "$archive" ] || options="$options -XX:SharedArchiveFile=$archive"
    # shellcheck disable=SC2086
    exec "$java" -Xms64m -Xmx160m $options -cp "$jars/*" kafka.Kafka "$home/server.properties"
fi
