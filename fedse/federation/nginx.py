"""An nginx configuration that lets sites reach Flower's fleet routes and nothing else.

In Flower 1.41 one port serves the fleet, control and runtime routes, and the control routes
have no authentication: whoever reaches them can register nodes and submit code. So the SuperLink
listens on the loopback address, and nginx passes on the requests named here one by one. Each
location names the path it passes on, so no spelling of another path can reach the SuperLink.
"""

from pathlib import Path

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
# Flower cuts arrays in chunks of 5 MB; nothing larger needs to pass.
MAX_BODY = "16m"

_CONFIG = """\
# nginx -p {folder} -c {folder}/nginx.conf
worker_processes 1;
daemon off;
pid nginx.pid;
error_log logs/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
  access_log logs/nginx-access.log;
  server_tokens off;
  client_body_temp_path nginx-body; proxy_temp_path nginx-proxy;
  fastcgi_temp_path nginx-f; uwsgi_temp_path nginx-u; scgi_temp_path nginx-s;
  client_max_body_size {max_body}; client_body_buffer_size {max_body};
  proxy_request_buffering off; proxy_buffering off; proxy_max_temp_file_size 0;
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
    location = {path} {{ limit_except POST {{ deny all; }} proxy_pass {upstream}{path}; }}"""


def nginx_config(folder: Path, *, host: str, port: int, link_port: int) -> str:
    """Serves `host`:`port` with the certificate in `folder`/keys; paths are relative to it."""
    upstream = f"https://127.0.0.1:{link_port}"
    paths = [f"/v1/fleet/{route}" for route in FLEET_ROUTES]
    locations = [_LOCATION.format(path=path, upstream=upstream) for path in paths]
    address = listen_address(host)
    listen = f"{address}:{port}" if address else port
    return _CONFIG.format(
        folder=folder, host=host, listen=listen, max_body=MAX_BODY, locations="\n".join(locations)
    )


def listen_address(host: str) -> str:
    """The address nginx listens at; empty = every address of this machine."""
    # A federation of one machine is not for others to reach.
    return "127.0.0.1" if host in ("localhost", "127.0.0.1") else ""
