#!/bin/sh
# Becomes a launcher's command, once ssh has a way to the workers:
#
#     sh launcher.sh <port> <folder with the key pair of the run> <folder of this container alone> <ports> <command> ..
#
# ports: a file of ssh's configuration with the ports of single workers; empty: all of them have <port>.
set -eu
port=$1 keys=$2 own=$3 ports=$4
shift 4
users=$(umask)
umask 077
cp "$keys/id" "$own/id"
chmod 600 "$own/id"
if [ -n "$ports" ]; then cat "$ports"; fi > "$own/config" # ssh takes the first port that it finds
cat >> "$own/config" << END
Host *
    Port $port
    IdentityFile $own/id
    IdentitiesOnly yes
    BatchMode yes
    ConnectTimeout 10
    ConnectionAttempts 10
    ServerAliveInterval 15
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
END
umask "$users" # what the command writes is for whom the image says
exec "$@"
