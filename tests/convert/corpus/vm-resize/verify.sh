#!/usr/bin/env bash
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "${SCRIPT_DIR}/../lib/common.sh"
vm_exists "builder" "vm-lab" || exit 1
if ! vm_field_is "builder" "vm-lab" '{.spec.instancetype.name}' "u1.large"; then
  exit 1
fi
exit 0
