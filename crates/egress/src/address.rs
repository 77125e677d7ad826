//! Which addresses are nobody's business: a class for each that is not public.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// What an address is, where it is not plainly public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    ThisNetwork,
    Loopback,
    Private,
    Shared,
    LinkLocal,
    Metadata,
    Benchmarking,
    Multicast,
    Broadcast,
    Reserved,
    UniqueLocal,
    SiteLocal,
    /// One of the host's own interfaces has it.
    Host,
}

impl Class {
    pub fn code(self) -> &'static str {
        match self {
            Self::ThisNetwork => "this-network",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "shared",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
            Self::Benchmarking => "benchmarking",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Reserved => "reserved",
            Self::UniqueLocal => "unique-local",
            Self::SiteLocal => "site-local",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ThisNetwork => "an address of \"this network\"",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Shared => "an address of a carrier's shared network",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a cloud's metadata service",
            Self::Benchmarking => "a benchmarking address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Reserved => "a reserved address",
            Self::UniqueLocal => "a unique local address",
            Self::SiteLocal => "a site-local address",
            Self::Host => "an address of the host itself",
        })
    }
}

/// Where clouds answer with credentials. One of them is a public address otherwise.
const METADATA_V4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
];
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// `None` for a public address. What other addresses are hidden in an IPv6 one counts as well.
pub fn class(address: IpAddr) -> Option<Class> {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

fn class_v4(address: Ipv4Addr) -> Option<Class> {
    if METADATA_V4.contains(&address) {
        return Some(Class::Metadata);
    }
    Some(match address.octets() {
        [0, ..] => Class::ThisNetwork,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::Shared,
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::LinkLocal,
        [198, 18 | 19, ..] => Class::Benchmarking,
        [224..=239, ..] => Class::Multicast,
        [255, 255, 255, 255] => Class::Broadcast,
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => Class::Reserved,
        _ => return None,
    })
}

fn class_v6(address: Ipv6Addr) -> Option<Class> {
    if METADATA_V6.contains(&address) {
        return Some(Class::Metadata);
    }
    let s = address.segments();
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => return Some(Class::ThisNetwork),
        [0, 0, 0, 0, 0, 0, 0, 1] => return Some(Class::Loopback),
        [0xfc00..=0xfdff, ..] => return Some(Class::UniqueLocal),
        [0xfe80..=0xfebf, ..] => return Some(Class::LinkLocal),
        [0xfec0..=0xfeff, ..] => return Some(Class::SiteLocal),
        [0xff00..=0xffff, ..] => return Some(Class::Multicast),
        // A translation prefix for use inside one network.
        [0x64, 0xff9b, 1, ..] => return Some(Class::Private),
        _ => {}
    }
    if let Some(hidden) = hidden_v4(s) {
        return hidden.into_iter().find_map(class_v4);
    }
    match s {
        // Teredo was looked at above; the rest of the block is for protocols, not for hosts.
        [0x2001, 0x10..=0x3f, ..] => Some(Class::Reserved),
        // Global unicast, and documentation, which some networks use as if it were.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Class::Reserved),
    }
}

/// IPv4 addresses that a gateway or the host itself may make of an IPv6 one.
fn hidden_v4(s: [u16; 8]) -> Option<Vec<Ipv4Addr>> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s {
        // Teredo names a server and, turned over, a client.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            Some(vec![v4(server_high, server_low), v4(!high, !low)])
        }
        // Compatible, mapped, translated, behind NAT64, 6to4, and ISATAP under any prefix.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..]
        | [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(vec![v4(high, low)]),
        _ => None,
    }
}

/// Whether an interface of this machine has the address. Sends nothing.
///
/// The kernel answers a local address from itself, and lets us bind it. Where the machine is set up
/// to bind any address at all, only the first is a sign.
pub fn is_own(address: IpAddr) -> bool {
    let answers_itself = || -> std::io::Result<bool> {
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        Ok(socket.local_addr()?.ip() == address)
    };
    answers_itself().unwrap_or(false)
        || (!binds_anything() && UdpSocket::bind((address, 0)).is_ok())
}

fn binds_anything() -> bool {
    ["ipv4", "ipv6"].iter().any(|family| {
        fs_err::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"))
            .is_ok_and(|text| text.trim() != "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(text: &str) -> Option<&'static str> {
        class(text.parse().expect("an address")).map(Class::code)
    }

    #[test]
    fn public_addresses_have_no_class() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.2.2",
            "198.51.100.7",
            "203.0.113.9",
            "2606:4700::1111",
            "2001:db8::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(class_of(public), None, "{public}");
        }
    }

    #[test]
    fn an_address_hidden_in_another_has_the_class_of_the_hidden_one() {
        for (address, class) in [
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "metadata"),
            ("::10.0.0.1", "private"),
            ("::ffff:0:10.0.0.1", "private"),
            ("64:ff9b::a00:1", "private"),
            ("64:ff9b:1::808:808", "private"),
            ("2002:7f00:1::", "loopback"),
            ("2002:a9fe:a9fe::1", "metadata"),
            ("2001:0:808:808::f5ff:fffe", "private"),
            ("2001:0:a00:1::f7f7:f7f7", "private"),
            ("2606:4700::5efe:10.0.0.1", "private"),
        ] {
            assert_eq!(class_of(address), Some(class), "{address}");
        }
    }

    #[test]
    fn the_host_s_own_addresses_are_known_without_a_packet() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own("203.0.113.77".parse().expect("an address")));
    }
}
