#!/bin/sh
trap 'echo draining >&2; exit 0' TERM
echo 'herma listening on http://127.0.0.1:4242' >&2
while :; do sleep 0.05 2>/dev/null; done
