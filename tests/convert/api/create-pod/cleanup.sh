#!/usr/bin/env bash
kubectl delete pod web-server -n create-pod-test --ignore-not-found
kubectl delete namespace create-pod-test --ignore-not-found
