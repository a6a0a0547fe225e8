#!/bin/sh
# Becomes the sshd of a worker, for MPI and ColossalAI:
#
#     sh worker.sh <port> <folder with the key pair of the run> <folder of this container alone>
set -eu
umask 077
port=$1 keys=$2 own=$3
sshd=$(command -v sshd || echo /usr/sbin/sshd) # it starts by its absolute path only
if [ ! -x "$sshd" ]; then
    echo "muster: the image of the workers has no sshd; install openssh-server in it" >&2
    exit 127
fi
cp "$keys/id" "$own/id" # sshd reads a key only from a file that is its user's own
cp "$keys/id.pub" "$own/authorized_keys"
chmod 600 "$own/id" "$own/authorized_keys"
export -p > "$own/environment" # what rank.sh gives to the ranks: sshd hands nothing of it on
pwd > "$own/folder"
mkdir -p /run/sshd 2> /dev/null || true # sshd's own empty folder, which slim images lack
config=/etc/ssh/sshd_config
[ -r "$config" ] || config=/dev/null
exec "$sshd" -D -e -f "$config" -p "$port" -h "$own/id" \
    -o PidFile=none -o StrictModes=no -o AuthorizedKeysFile="$own/authorized_keys" \
    -o PermitRootLogin=prohibit-password -o PubkeyAuthentication=yes -o PasswordAuthentication=no \
    -o ForceCommand="/bin/sh $(dirname "$0")/rank.sh $own"
