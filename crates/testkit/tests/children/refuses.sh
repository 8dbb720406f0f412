#!/bin/sh
echo "no port: $*" >&2
exit 3
