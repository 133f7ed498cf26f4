"""An nginx configuration that lets sites reach Flower's fleet routes and nothing else.

In Flower 1.41 one port serves the fleet, control and runtime routes, and the control routes
have no authentication: whoever reaches them can register nodes and submit code. So the SuperLink
listens on the loopback address, and nginx passes on the requests named here one by one. Each
location names the path it passes on, so no spelling of another path can reach the SuperLink.
"""

from pathlib import Path

FILE = "nginx.conf"

# Flower's fleet routes without register-node and unregister-node: the coordinator enrols sites.
FLEET_ROUTES = (
    "activate-node",
    "confirm-message-received",
    "deactivate-node",
    "get-fab",
    "get-run",
    "pull-messages",
    "pull-object",
    "push-messages",
    "push-object",
    "send-node-heartbeat",
)
# Flower cuts arrays in chunks of 5 MB and sends each as one object. All other requests are short.
MAX_OBJECT, MAX_BODY = "6m", "64k"
OBJECT_ROUTE = "push-object"
# Requests one address may have under way. All sites may be behind one address, and each has a few
# at a time: heartbeat, question, two objects. Who is over it is answered 503, and asks again.
REQUESTS_PER_SITE, REQUESTS_TO_SPARE = 6, 32
# A request that is passed on has two connections. One address gets half of them at most.
LEAST_CONNECTIONS, CONNECTIONS_PER_REQUEST, SHARES = 4096, 2, 2
# Objects under way, each of which nginx keeps in memory: of one address, at most, and of all.
OBJECTS_PER_SITE, OBJECTS_TO_SPARE, OBJECTS_PER_ADDRESS, OBJECTS = 2, 4, 24, 128
# Between two pieces of what a client sends or takes. Nothing waits that long by itself.
IDLE_SECONDS = 10

_CONFIG = """\
# nginx -p {folder} -c {folder}/nginx.conf
worker_processes 1;
daemon off;
pid nginx.pid;
error_log logs/nginx-error.log;
worker_rlimit_nofile {files};
events {{ worker_connections {connections}; }}
http {{
  access_log logs/nginx-access.log;
  server_tokens off;
  client_body_temp_path nginx-body; proxy_temp_path nginx-proxy;
  fastcgi_temp_path nginx-f; uwsgi_temp_path nginx-u; scgi_temp_path nginx-s;
  client_max_body_size {max_body}; client_body_buffer_size {max_body};
  client_header_timeout {idle}s; client_body_timeout {idle}s; send_timeout {idle}s;
  limit_conn_zone $binary_remote_addr zone=address:1m; limit_conn address {requests};
  limit_conn_zone $binary_remote_addr zone=uploads:1m; limit_conn_zone $server_port zone=all:1m;
  # The SuperLink keeps a body in memory before it knows who sends it: it gets whole ones only.
  proxy_request_buffering on; proxy_buffering off; proxy_max_temp_file_size 0;
  proxy_http_version 1.1;
  # A SuperLink whose database is busy answers 500, which makes a SuperNode give up; 503 does not.
  proxy_intercept_errors on; error_page 500 =503 /busy;
  proxy_ssl_verify on; proxy_ssl_trusted_certificate keys/ca.crt; proxy_ssl_name localhost;
  server {{
    listen {listen} ssl;
    server_name {host};
    ssl_certificate keys/server.pem; ssl_certificate_key keys/server.key;
    ssl_protocols TLSv1.3;
{locations}
    location = /busy {{ internal; return 503; }}
    location / {{ return 403; }}
  }}
}}
"""
_LOCATION = """\
    location = {path} {{ limit_except POST {{ deny all; }} {body}proxy_pass {upstream}{path}; }}"""


def nginx_config(folder: Path, *, host: str, port: int, link_port: int, sites: int) -> str:
    """Serves `host`:`port` with the certificate in `folder`/keys; paths are relative to it."""
    address, requests = listen_address(host), REQUESTS_PER_SITE * sites + REQUESTS_TO_SPARE
    connections = max(LEAST_CONNECTIONS, SHARES * CONNECTIONS_PER_REQUEST * requests)
    return _CONFIG.format(
        folder=folder,
        host=host,
        listen=f"{address}:{port}" if address else port,
        max_body=MAX_BODY,
        idle=IDLE_SECONDS,
        requests=requests,
        connections=connections,
        files=2 * connections,
        locations="\n".join(_location(route, link_port, sites) for route in FLEET_ROUTES),
    )


def _location(route: str, link_port: int, sites: int) -> str:
    upstream = f"https://127.0.0.1:{link_port}"
    # In memory: a worker of nginx may run as a user who cannot write into the folder.
    body = f"client_max_body_size {MAX_OBJECT}; client_body_buffer_size {MAX_OBJECT}; "
    body += f"limit_conn uploads {most_objects(sites)}; limit_conn all {OBJECTS}; "
    is_object = route == OBJECT_ROUTE
    path = f"/v1/fleet/{route}"
    return _LOCATION.format(path=path, body=body if is_object else "", upstream=upstream)


def most_objects(sites: int) -> int:
    """Objects that may be on their way from one address."""
    return min(OBJECTS_PER_SITE * sites + OBJECTS_TO_SPARE, OBJECTS_PER_ADDRESS)


def listen_address(host: str) -> str:
    """The address nginx listens on; empty = every address of this machine."""
    # A federation on one machine must not be reachable by others.
    return "127.0.0.1" if host in ("localhost", "127.0.0.1") else ""
