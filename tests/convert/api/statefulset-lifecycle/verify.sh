#!/usr/bin/env bash
source ./../lib/common.sh
NS=stateful-test
object_exists statefulset db $NS || exit 1
object_exists service db $NS || exit 1
if [ "$(kubectl get svc db -n $NS -o jsonpath='{.spec.clusterIP}')" != "None" ]; then
  echo "the service is not headless"; exit 1
fi
for n in 0 1 2; do
  if ! kubectl wait --for=condition=Ready pod/db-$n -n $NS --timeout=10s; then
    echo "db-$n is not ready"
    exit 1
  fi
done
echo "all members are ready"
exit 0
