//! Hosts and ports: what is read has one spelling, and no resolver could take it for an address.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use nacre_egress::policy::{Policy, Private, Rule};
use nacre_egress::target::{Host, Target};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(target) = Target::parse(bytes, Some(80)) {
        let written = target.to_string();
        assert!(written.is_ascii() && written.len() <= 253 + 6);
        assert_eq!(Target::parse(written.as_bytes(), None), Ok(target.clone()));
        match &target.host {
            Host::Name(name) => {
                assert!(name.parse::<IpAddr>().is_err());
                assert!(!name.ends_with('.') && !name.contains(['\0', '%', '@', ':', '/']));
                let last = name.rsplit('.').next().unwrap_or_default();
                assert!(!last.bytes().all(|byte| byte.is_ascii_digit()));
                assert!(!last.starts_with("0x") || last.bytes().skip(2).any(|b| !b.is_ascii_hexdigit()));
            }
            Host::Address(address) => {
                let _ = nacre_egress::address::class(*address);
            }
        }
        assert!(Policy::default().admits(&target).is_err());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(rule) = text.parse::<Rule>() {
            assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
        }
        let _ = text.parse::<Private>();
    }
});
