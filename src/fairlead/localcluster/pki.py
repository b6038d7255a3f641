"""Keys and certificates of one cluster: an authority of its own, a server certificate, client certificates.

Called once by `up`. It must not reuse an authority between clusters: a kubeconfig opens one cluster only.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.localcluster.paths import write_private

VALID = datetime.timedelta(days=3650)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")
# user name -> groups, as the API server reads them from a certificate's subject
CLIENTS = {
    "admin": ("fairlead-admin", ("system:masters",)),
    "controller-manager": ("system:kube-controller-manager", ()),
    "scheduler": ("system:kube-scheduler", ()),
    "kwok": ("fairlead:kwok", ()),
}


def create(folder: Path) -> None:
    """Write ca, server, service-account key and one pair per client into `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(key)
    _write(folder, "ca", key, authority)
    _issue(folder, "server", authority, key, "fairlead-server", (), server=True)
    for name, (user, groups) in CLIENTS.items():
        _issue(folder, name, authority, key, user, groups, server=False)
    account = ec.generate_private_key(ec.SECP256R1())
    write_private(folder / "service-account.key", _key_bytes(account))


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairlead-local-ca")])
    return (
        _builder(subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _issue(
    folder: Path,
    name: str,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    user: str,
    groups: tuple[str, ...],
    *,
    server: bool,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    # The server pair also serves as client of etcd, therefore both usages.
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if server else [])
    builder = (
        _builder(subject, authority.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    if server:
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    _write(folder, name, key, builder.sign(authority_key, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        # An hour back: a clock that is set back a little must not make the cluster unusable.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + VALID)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        # The form from which Kubernetes derives the public key of service account tokens too.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> None:
    write_private(folder / f"{name}.key", _key_bytes(key))
    write_private(folder / f"{name}.crt", cert.public_bytes(serialization.Encoding.PEM))
