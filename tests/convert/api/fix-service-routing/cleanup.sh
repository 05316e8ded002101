#!/usr/bin/env bash
kubectl delete namespace service-routing --ignore-not-found=true
