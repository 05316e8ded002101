#!/usr/bin/env bash
kubectl delete namespace "crashloop-test" --ignore-not-found
