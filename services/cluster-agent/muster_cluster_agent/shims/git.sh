#!/bin/sh
# Checks one revision of a repository out, before the replica starts, without its history where the server allows it:
#
#     sh git.sh <empty folder> <repository> <branch or nothing> <commit, tag or nothing>
#
# MUSTER_GIT_USERNAME and MUSTER_GIT_PASSWORD are its credentials; a password that is a private key is one for ssh.
set -eu
folder=$1 repository=$2 branch=$3 revision=$4
case $revision in
    -*)
        echo "muster: the revision $revision begins with a dash, which no commit and no tag does" >&2
        exit 2
        ;;
esac
if ! command -v git > /dev/null; then
    echo "muster: the image for git in the cluster file has no git; name one that has" >&2
    exit 127
fi
export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL="${GIT_ALLOW_PROTOCOL:-http:https:ssh}"
# Named, the folder is not looked for, and its owner does not count: it belongs to the node's root.
export GIT_DIR="$folder/.git" GIT_WORK_TREE="$folder"
umask 0 # the image of the replica may have another user
cd "$folder"
git init -q .
helper=
case ${MUSTER_GIT_PASSWORD:-} in
    '') ;;
    -----BEGIN*)
        trap 'rm -f .git/muster-key .git/muster-hosts' EXIT
        (umask 077 && printf '%s\n' "$MUSTER_GIT_PASSWORD" > .git/muster-key)
        export GIT_SSH_COMMAND="ssh -i .git/muster-key -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new \
-o UserKnownHostsFile=.git/muster-hosts"
        ;;
    *)
        # The values stay in the environment: the folder is the workload's, and its configuration would keep them.
        helper='!f() { printf "username=%s\npassword=%s\n" "${MUSTER_GIT_USERNAME:-git}" "$MUSTER_GIT_PASSWORD"; }; f'
        ;;
esac

fetch() {
    git -c credential.helper= -c "credential.helper=$helper" fetch -q "$@"
}

git remote add -- origin "$repository"
if [ -z "$revision" ]; then
    fetch --depth 1 origin "${branch:+refs/heads/}${branch:-HEAD}"
    revision=FETCH_HEAD
elif fetch --depth 1 origin "$revision" 2> /dev/null; then
    revision=FETCH_HEAD
else # a commit that the server does not give out by its id, or one whose id is shortened
    fetch --tags origin "+refs/heads/${branch:-*}:refs/remotes/origin/${branch:-*}"
fi
if [ -n "$branch" ]; then
    git checkout -q -B "$branch" "$revision" --
else
    git checkout -q --detach "$revision" --
fi
