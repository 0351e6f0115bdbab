#!/bin/sh
# kubectl gang, as krew installs it: the first call makes a virtual environment beside this file.
set -eu
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
venv=$here/venv
if [ ! -e "$venv/.complete" ]; then
  python=
  for each in python3.11 python3 python3.12 python3.13 python3.14; do
    if "$each" -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      python=$each
      break
    fi
  done
  if [ -z "$python" ]; then
    echo 'error: kubectl gang needs Python 3.11 to 3.14 with venv and pip: install python3.11 and python3.11-venv' >&2
    exit 2
  fi
  echo "kubectl gang: installing its packages into $venv, once" >&2
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$here/runtime.txt" >&2
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$here"/gangctl-*.whl >&2
  touch "$venv/.complete"
fi
exec "$venv/bin/kubectl-gang" "$@"
