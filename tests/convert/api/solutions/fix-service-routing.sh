kubectl patch service nginx -n service-routing -p '{"spec": {"selector": {"app": "nginx"}}}'
