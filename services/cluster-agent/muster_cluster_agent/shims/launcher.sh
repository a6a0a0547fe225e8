#!/bin/sh
# Becomes a launcher's command, once ssh has a way to the workers:
#
#     sh launcher.sh <port> <folder with the key pair of the run> <folder of this container alone> <command> <arguments>
set -eu
port=$1 keys=$2 own=$3
shift 3
users=$(umask)
umask 077
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
umask "$users" # what the command writes is for whom the image says
exec "$@"
