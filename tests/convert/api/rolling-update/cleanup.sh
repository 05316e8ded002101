#!/usr/bin/env bash
kubectl delete namespace rollout-test --ignore-not-found
