kubectl expose deployment api -n expose-test --port=80 --target-port=8080
