"""What a federation's server has on its disk is what its processes work by, also after a change.

A certificate is renewed, and an amendment lets in more sites, while nginx and the SuperLink run.
"""

import signal
from collections.abc import Sequence

from fedse.errors import StoreError
from fedse.federation.folder import Federation
from fedse.federation.nginx import FILE as NGINX
from fedse.federation.renewal import require_fitting_keys, server_certificate
from fedse.processes.restart import RestartingProcess, Tell


class ReadAgain:
    """The certificate and the settings of nginx that were read last."""

    def __init__(self, federation: Federation, tell: Tell) -> None:
        self._federation, self._tell = federation, tell
        self._certificate = self._refused = server_certificate(federation)
        self._settings = self._nginx_settings()

    def look(self, kept: Sequence[RestartingProcess]) -> None:
        """What has changed is read by those it concerns; open requests at nginx go on."""
        renewed, settings = self._is_renewed(), self._nginx_settings()
        changed, self._settings = settings != self._settings, settings
        for one in kept:
            name = one.started.name if one.started else ""
            if name == "superlink" and renewed:
                one.restart("for the new certificate")  # the round goes on meanwhile
            elif name == "nginx" and one.started and (renewed or changed):
                one.started.process.send_signal(signal.SIGHUP)

    def _is_renewed(self) -> bool:
        """Whether there is a new certificate, and it fits its key; else a warning, once."""
        certificate = server_certificate(self._federation)
        if certificate == self._certificate:
            return False
        try:
            require_fitting_keys(self._federation)
        except StoreError as error:  # what runs goes on with the certificate it has read
            if certificate != self._refused:
                self._tell(f"warning: {error}: {error.hint}")
            self._refused = certificate
            return False
        self._certificate = certificate
        self._tell("the server's certificate was renewed; nginx and the SuperLink read it now")
        return True

    def _nginx_settings(self) -> bytes:
        """Empty if another proxy is used and they were removed."""
        file = self._federation.path / NGINX
        return file.read_bytes() if file.is_file() else b""
