use rustix::rand::{GetRandomFlags, getrandom};

/// A token for a person or a service: 160 random bits behind `nac_`, so that what scans for leaked
/// tokens knows it.
pub fn make() -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0u8; 32];
    // The kernel's: there is nothing to do without it.
    getrandom(&mut bytes, GetRandomFlags::empty()).expect("the kernel has randomness");
    let digits = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)]));
    format!("nac_{}", digits.collect::<String>())
}
