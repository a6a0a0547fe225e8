#!/bin/sh
# Runs the sshd of a worker, for MPI and ColossalAI, and ends with everything that was started over it:
#
#     sh worker.sh <port> <folder with the key pair of the run> <folder of this container alone>
set -eu
port=$1 keys=$2 own=$3
sshd=$(command -v sshd || echo /usr/sbin/sshd) # it starts by its absolute path only
if [ ! -x "$sshd" ]; then
    echo "muster: the image of the workers has no sshd; install openssh-server in it" >&2
    exit 127
fi
users=$(umask)
umask 077
cp "$keys/id" "$own/id" # sshd reads a key only from a file that is its user's own
cp "$keys/id.pub" "$own/authorized_keys"
chmod 600 "$own/id" "$own/authorized_keys"
export -p > "$own/environment" # what rank.sh gives to the ranks: sshd hands nothing of it on
pwd > "$own/folder"
umask "$users" # what ranks write is for whom the image says
mkdir -p /run/sshd 2> /dev/null || true # sshd's own empty folder, which slim images lack
config=/etc/ssh/sshd_config
[ -r "$config" ] || config=/dev/null
# Its log would be full of the kubelet's questions whether the port answers.
"$sshd" -D -e -f "$config" -p "$port" -h "$own/id" \
    -o PidFile=none -o StrictModes=no -o AuthorizedKeysFile="$own/authorized_keys" -o LogLevel=FATAL \
    -o PermitRootLogin=prohibit-password -o PubkeyAuthentication=yes -o PasswordAuthentication=no \
    -o ForceCommand="/bin/sh $(dirname "$0")/rank.sh $own" &
daemon=$!

stop() {
    # sshd passes no signal on to ranks, so that each gets its own, with the grace of the container. From the container's
    # first process this reaches everything in it; from any other process it would reach processes of others.
    if [ $$ -eq 1 ]; then
        kill -TERM -1 2> /dev/null || true
        while kill -0 -1 2> /dev/null; do sleep 1; done
    else
        kill -TERM "$daemon" 2> /dev/null || true
    fi
    exit 143
}
trap stop TERM INT
code=0
wait "$daemon" || code=$?
exit "$code"
