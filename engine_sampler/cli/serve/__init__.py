"""The servers of `engine-sampler serve`, small enough to be copied.

They use the public names of the package alone, by their full names: a copy of this folder runs elsewhere.

    engine      a thread that runs a model for all requests at once
    replies     what OpenAI's protocol asks for and is answered, without a socket
    threads     a server on the standard library
    asgi        a server on FastAPI and uvicorn
    templates   chat templates
    command     the options of the command
"""
