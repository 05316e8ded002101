#!/usr/bin/env bash
TIMEOUT="60s"
kubectl rollout status deployment/web-app -n rollout-test --timeout=$TIMEOUT || exit 1
image=$(kubectl get deployment web-app -n rollout-test -o=jsonpath='{.spec.template.spec.containers[0].image}')
[[ "$image" == "nginx:1.27" ]] || { echo "wrong image $image"; exit 1; }
ready=$(kubectl get deployment web-app -n rollout-test -o jsonpath='{.status.readyReplicas}')
if [[ "$ready" -ne 3 ]]; then
  echo "only $ready replicas are ready"
  exit 1
fi
