#!/usr/bin/env bash
set -e
NS="${EVAL_NAMESPACE:-vm-lab}"
kubectl delete namespace "$NS" --ignore-not-found
kubectl create namespace "$NS"
cat <<EOF | kubectl apply -f -
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: builder
  namespace: $NS
spec:
  runStrategy: Halted
  template:
    spec:
      domain:
        memory: {guest: ${GUEST_MEMORY:-2Gi}}
EOF
