#!/bin/sh
# Becomes a launcher's command, once ssh has a way to the workers:
#
#     sh launcher.sh <port> <folder with the key pair of the run> <folder of this container alone> <command> <arguments>
set -eu
umask 077
port=$1 keys=$2 own=$3
shift 3
cp "$keys/id" "$own/id"
chmod 600 "$own/id"
cat > "$own/config" << END
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
# A program that calls ssh by itself finds the way as well, unless its user has a way of their own.
home=${HOME:-/root}/.ssh
if [ ! -e "$home/config" ]; then
    { mkdir -p "$home" && cp "$own/config" "$home/config"; } 2> /dev/null || true
fi
exec "$@"
