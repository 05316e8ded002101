#!/usr/bin/env bash
kubectl delete namespace image-pull-test --ignore-not-found
