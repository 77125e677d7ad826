//! What root of a sandbox may hold. Mounting, tracing others, networking and time are not here.

use rustix::thread::CapabilitySet;

/// As the kernel counts them, and as a bundle spells them.
pub(crate) const ALLOWED: [(CapabilitySet, &str); 13] = [
    (CapabilitySet::CHOWN, "CAP_CHOWN"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (CapabilitySet::FOWNER, "CAP_FOWNER"),
    (CapabilitySet::FSETID, "CAP_FSETID"),
    (CapabilitySet::KILL, "CAP_KILL"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETPCAP, "CAP_SETPCAP"),
    (CapabilitySet::NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"),
    (CapabilitySet::SYS_CHROOT, "CAP_SYS_CHROOT"),
    (CapabilitySet::MKNOD, "CAP_MKNOD"),
    (CapabilitySet::AUDIT_WRITE, "CAP_AUDIT_WRITE"),
    (CapabilitySet::SETFCAP, "CAP_SETFCAP"),
];

pub(crate) fn is_allowed(capability: CapabilitySet) -> bool {
    ALLOWED.iter().any(|(allowed, _)| *allowed == capability)
}
