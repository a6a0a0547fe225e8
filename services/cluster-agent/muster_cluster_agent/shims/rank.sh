#!/bin/sh
# What a worker's sshd runs for each command that it is sent, with the variables and in the folder of its container:
#
#     sh rank.sh <folder that worker.sh has filled>
#
# Values with quotes, spaces and line breaks arrive as they are, which sshd's own SetEnv cannot do.
. "$1/environment"
cd "$(cat "$1/folder")" || exit 126
[ -n "${SSH_ORIGINAL_COMMAND-}" ] || exec "${SHELL:-/bin/sh}"
exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
