//! Heads and chunks: nothing makes the reader panic, how the bytes come makes no difference, and
//! what is forwarded reads as what was meant.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nacre_egress::target::Target;
use nacre_egress::write::forwarded_request;
use nacre_relay::{Chunked, Form, head_length, parse_request, parse_response};

fuzz_target!(|bytes: &[u8]| {
    let whole = head_length(bytes, 0);
    let half = bytes.len() / 2;
    let in_two = match head_length(&bytes[..half], 0) {
        Ok(None) => head_length(bytes, half),
        other => other,
    };
    assert_eq!(whole, in_two);
    if let Ok(Some(length)) = whole {
        let head = &bytes[..length];
        let _ = parse_response(head);
        if let Ok(request) = parse_request(head)
            && let Form::Absolute { authority, path } = request.form
            && let Ok(target) = Target::parse(authority, Some(80))
        {
            let mut out = Vec::new();
            forwarded_request(&request, &target, path, Some(b""), &mut out);
            let again = parse_request(&out).expect("what we write we can read");
            assert_eq!(head_length(&out, 0), Ok(Some(out.len())));
            assert_eq!((again.method, again.body), (request.method, request.body));
            let Form::Absolute { authority, .. } = again.form else {
                panic!("it stays absolute");
            };
            assert_eq!(Target::parse(authority, Some(80)), Ok(target));
        }
    }
    let (mut at_once, mut in_pieces) = (Chunked::default(), Chunked::default());
    let end = at_once.advance(bytes);
    let pieces = in_pieces
        .advance(&bytes[..half])
        .and_then(|used| match used == half {
            true => in_pieces.advance(&bytes[half..]).map(|more| used + more),
            false => Ok(used),
        });
    assert_eq!(end, pieces);
});
