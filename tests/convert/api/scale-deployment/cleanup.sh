#!/usr/bin/env bash
kubectl delete namespace scale-test --ignore-not-found
