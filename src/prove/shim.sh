#!/bin/sh
# What stands in the place of a command in the jail. Each of these processes costs time, and a poll asks the same many times: what was asked
# before in this world is answered from /world/known, which gevals writes; all else gevals answers itself.
trap '' PIPE
name=${0##*/}
if [ "$name" = sleep ] && [ $# = 1 ]; then
  case $1 in
  '' | 0?* | *[!0-9]*) ;;
  *)
    before=0
    [ -e /world/slept ] && read -r before </world/slept
    case $before in
    '' | *[!0-9]*) ;;
    *)
      total=$((before + $1))
      if [ "$total" -lt 300 ]; then
        echo "$total" >/world/slept
        echo '#pause' >>/world/trace
        exit 0
      fi
      ;;
    esac
    ;;
  esac
fi
if [ -e /world/known ]; then
  IFS=
  asked="$name$*"
  . /world/known
fi
exec /usr/local/bin/gevals prove-shim "$name" "$@"
