"""How many files and connections may be open at a time, and how many readers that is."""

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

MOST = 65_536
"""Files and connections that the server asks the system for."""

OF_A_READER = 4
"""What Streamlit opens for a connection: the connection, and an event loop."""

OF_THE_SERVER = 512
"""What is open besides: its own files, and 3 for each of the 128 sessions that Streamlit remembers."""


def limit() -> int:
    """Files and connections that may be open."""
    if resource is None:
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft


def raised() -> int:
    """The limit, raised as far as the system lets and `MOST` says.

    What a process is started with is less, since some old programs cannot count higher: 1,024 are 250 readers.
    """
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return limit()


def readers() -> int:
    """Connections of readers for which there are enough, so that those who are served stay so."""
    return (limit() - min(OF_THE_SERVER, limit() // 2)) // OF_A_READER
