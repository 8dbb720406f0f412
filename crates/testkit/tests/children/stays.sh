#!/bin/sh
echo first >&2
echo "key $HERMA_API_KEY" >&2
echo 'herma listening on http://127.0.0.1:4242' >&2
exec sleep 60
