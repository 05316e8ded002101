kubectl patch deployment web -n probe-test -p '{"spec": {"template": {"spec": {"containers": [{"name": "nginx", "readinessProbe": {"httpGet": {"path": "/healthz", "port": 80}}}]}}}}'
