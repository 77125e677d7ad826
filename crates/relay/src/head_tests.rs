use proptest::prelude::*;

use super::*;

fn request(lines: &[&str]) -> Vec<u8> {
    format!("{}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

fn error(lines: &[&str]) -> HeadError {
    parse_request(&request(lines)).expect_err("it is refused")
}

#[test]
fn a_tunnel_and_an_absolute_request_are_read() {
    let head = request(&["CONNECT pypi.org:443 HTTP/1.1", "Host: pypi.org:443"]);
    let connect = parse_request(&head).expect("a tunnel");
    assert_eq!(
        connect.form,
        Form::Connect {
            authority: b"pypi.org:443"
        }
    );
    let head = request(&["GET http://mirror.example/debian?x HTTP/1.1", "Host: other"]);
    let get = parse_request(&head).expect("a request");
    assert_eq!(
        get.form,
        Form::Absolute {
            authority: b"mirror.example",
            path: b"/debian?x"
        }
    );
    assert_eq!((get.body, get.keep_alive), (Body::None, true));
}

#[test]
fn an_authority_ends_where_a_path_query_or_backslash_begins() {
    for (target, authority) in [
        ("http://a", "a"),
        ("http://a?b@c", "a"),
        ("HTTP://a/@b", "a"),
    ] {
        let head = request(&[&format!("GET {target} HTTP/1.1")]);
        let Form::Absolute {
            authority: found, ..
        } = parse_request(&head).expect(target).form
        else {
            panic!("{target} is absolute");
        };
        assert_eq!(found, authority.as_bytes(), "{target}");
    }
    for bad in [
        "http://a\\@b/",
        "http://a/#b",
        "http://a/\x7f",
        "http://a#@b",
    ] {
        assert_eq!(error(&[&format!("GET {bad} HTTP/1.1")]), HeadError::Path);
    }
}

#[test]
fn what_is_asked_for_is_a_path_or_an_address() {
    for target in ["*", "example.org", "example.org:80", ""] {
        let head = format!("GET {target} HTTP/1.1");
        assert_eq!(error(&[&head]), HeadError::Target, "{target}");
    }
    for path in ["/", "/a?b=http://c/"] {
        let head = request(&[&format!("GET {path} HTTP/1.1")]);
        let form = parse_request(&head).expect("readable").form;
        assert_eq!(form, Form::Path(path.as_bytes()));
    }
    for bad in ["/a#b", "/a\\b", "/\x7f"] {
        assert_eq!(error(&[&format!("GET {bad} HTTP/1.1")]), HeadError::Path);
    }
    let head = request(&["GET https://a/ HTTP/1.1"]);
    let form = parse_request(&head).expect("readable").form;
    assert_eq!(form, Form::OtherScheme);
}

#[test]
fn what_two_programs_might_read_differently_is_refused() {
    let get = "GET http://a/ HTTP/1.1";
    for (lines, why) in [
        (
            &[get, "Content-Length: 5", "Transfer-Encoding: chunked"][..],
            HeadError::TwoLengths,
        ),
        (
            &[get, "Content-Length: 5", "Content-Length: 5"],
            HeadError::Length,
        ),
        (&[get, "Content-Length: 5, 5"], HeadError::Length),
        (&[get, "Content-Length: +5"], HeadError::Length),
        (&[get, "Content-Length: 0x5"], HeadError::Length),
        (&[get, "Content-Length:"], HeadError::Length),
        (
            &[get, "Content-Length: 99999999999999999999"],
            HeadError::Length,
        ),
        (
            &[get, "Transfer-Encoding: gzip, chunked"],
            HeadError::TransferEncoding,
        ),
        (
            &[
                get,
                "Transfer-Encoding: chunked",
                "Transfer-Encoding: identity",
            ],
            HeadError::TransferEncoding,
        ),
        (
            &[get, "Transfer-Encoding: xchunked"],
            HeadError::TransferEncoding,
        ),
        (&[get, "Host: a", "Host: b"], HeadError::SecondHost),
        (&[get, "A: b", " c"], HeadError::Folded),
        (&[get, "A: b", "\tc"], HeadError::Folded),
        (&[get, "Content-Length : 5"], HeadError::FieldName),
        (&[get, "Content Length: 5"], HeadError::FieldName),
        (&[get, "no colon"], HeadError::FieldName),
        (&[get, ": empty"], HeadError::FieldName),
        (&[get, "A: b\rc"], HeadError::FieldValue),
        (&[get, "A: b\0c"], HeadError::FieldValue),
        (&["GET  http://a/ HTTP/1.1"], HeadError::FirstLine),
        (&["GET http://a/ HTTP/1.1 "], HeadError::FirstLine),
        (&["GET http://a/ b HTTP/1.1"], HeadError::FirstLine),
        (&["G(T http://a/ HTTP/1.1"], HeadError::FirstLine),
        (&["", get], HeadError::FirstLine),
        (&["GET http://a/ HTTP/2.0"], HeadError::Version),
        (&["GET http://a/ HTTP/1.10"], HeadError::Version),
        (
            &["POST http://a/ HTTP/1.0", "Transfer-Encoding: chunked"],
            HeadError::TransferEncoding,
        ),
    ] {
        assert_eq!(error(lines), why, "{lines:?}");
    }
}

#[test]
fn a_head_ends_at_its_empty_line_and_nowhere_else() {
    let head = request(&["GET http://a/ HTTP/1.1", "A: b"]);
    for cut in 0..head.len() {
        assert_eq!(head_length(&head[..cut], 0), Ok(None), "{cut}");
    }
    let mut more = head.clone();
    more.extend_from_slice(b"body");
    assert_eq!(head_length(&more, 0), Ok(Some(head.len())));
    assert_eq!(head_length(&more, head.len() - 1), Ok(Some(head.len())));
    assert_eq!(head_length(b"GET /\n", 0), Err(HeadError::BareLineFeed));
    assert_eq!(head_length(b"\n", 0), Err(HeadError::BareLineFeed));
    assert_eq!(
        head_length(&vec![b'a'; MAX_HEAD], 0),
        Err(HeadError::TooLarge)
    );
}

#[test]
fn a_head_has_at_most_so_many_fields() {
    let mut lines = vec!["GET http://a/ HTTP/1.1"];
    lines.extend(std::iter::repeat_n("A: b", 129));
    assert_eq!(error(&lines), HeadError::TooManyFields);
}

#[test]
fn how_long_a_response_is_depends_on_its_status_and_the_question() {
    let parse = |text: &str| {
        let head = text.to_owned();
        move |method: &str| {
            parse_response(head.as_bytes())
                .expect("a response")
                .body(method)
        }
    };
    let five = parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert_eq!((five("GET"), five("HEAD")), (Body::Length(5), Body::None));
    assert_eq!(
        parse("HTTP/1.1 304\r\nContent-Length: 5\r\n\r\n")("GET"),
        Body::None
    );
    assert_eq!(parse("HTTP/1.1 200 \r\n\r\n")("GET"), Body::UntilClose);
    assert_eq!(
        parse("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n")("GET"),
        Body::Chunked
    );
    for bad in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 x",
        "HTTP/1.1 2a0 x",
        "ICY 200 OK",
        "HTTP/1.1",
    ] {
        assert!(
            parse_response(format!("{bad}\r\n\r\n").as_bytes()).is_err(),
            "{bad}"
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(Some(length)) = head_length(&bytes, 0) {
            let _ = parse_request(&bytes[..length]);
            let _ = parse_response(&bytes[..length]);
        }
        let _ = parse_request(&bytes);
        let _ = parse_response(&bytes);
    }

    #[test]
    fn where_a_head_ends_does_not_depend_on_how_it_came(text in "[a-z\r\n: ]{0,60}", cut in 0usize..60) {
        let bytes = text.as_bytes();
        let cut = cut.min(bytes.len());
        let in_two = match head_length(&bytes[..cut], 0) {
            Ok(None) => head_length(bytes, cut),
            other => other,
        };
        prop_assert_eq!(in_two, head_length(bytes, 0));
    }
}
