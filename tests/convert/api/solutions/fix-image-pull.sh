kubectl set image deployment/app nginx=nginx:1.27 -n image-pull-test
