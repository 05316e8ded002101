#!/usr/bin/env bash
kubectl delete statefulset db -n stateful-test --ignore-not-found
kubectl delete namespace stateful-test --ignore-not-found
