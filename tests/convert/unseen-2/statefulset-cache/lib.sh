#!/usr/bin/env bash
NS="${STS_CACHE_NAMESPACE:-sts-cache}"

die() {
  echo "error: $*" >&2
  exit 1
}

# get_path KIND NAME JSONPATH
get_path() {
  kubectl get "$1" "$2" -n "$NS" -o jsonpath="$3"
}

# assert_path KIND NAME JSONPATH EXPECTED
assert_path() {
  local actual
  actual="$(get_path "$1" "$2" "$3")" || die "$1/$2 does not exist"
  [[ "$actual" == "$4" ]] || die "$1/$2: $3 is '$actual', expected '$4'"
}
