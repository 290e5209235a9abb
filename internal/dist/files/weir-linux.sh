#!/bin/sh
# Starts the program for this machine's processor.
case "$(uname -m)" in
x86_64 | amd64) exec "${0%/*}/weir-linux-amd64" "$@" ;;
aarch64 | arm64) exec "${0%/*}/weir-linux-arm64" "$@" ;;
esac
echo "weir: this bundle has no program for $(uname -m)" >&2
exit 1
