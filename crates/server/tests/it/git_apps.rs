//! An app of a forge in the place of an organisation's token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use doors::forge::Forge;
use hyper::Method;
use serde_json::{Value, json};

use crate::git_tokens::{fetched, git_config, git_host};
use crate::stand_in::{Asked, Said, StandIn};
use crate::world::World;

/// Made for these tests; it opens nothing anywhere.
const KEY: [&str; 25] = [
    "MIIEowIBAAKCAQEAvy2OmywVAzsnkUNRy5SEkyigZEXOGKZosdFYwMX+GfEFCrL5",
    "bUypeBqn7wt7ufhv7zQlrp9FOzD9+xwc8JfZRiOphw95JR6a9/hLQdeylYb1ejiy",
    "ZZP2+uXwoWWxfkvb8SO6A+A9L08g0Pi0gRzoHyxUxJrH0WRmcC+gs9fg6PKLR7wS",
    "3qYd53a5sR1wxL+UCvi4NN+XLlBFJx4oZkN531Mujo3p/E0TxGpY97ks7+JhiHjq",
    "4TjJxnciC3h3CoLfqMNfhDwW1fffZ1B9PJXsafFssWm218xTfJjIeCjTulC4bn+o",
    "JBAqEbcAjv35kEqhlXzZ9bXfdG6ecEi4Du7bLQIDAQABAoIBAF8z1Jw5a41cW+ve",
    "1lDG+O4/gP/uMx/bXq+OTOBSuKM6fwRA9C0VzB7fR1mnIkoOCc/Y7Br1fYhocVIn",
    "QdIeDDj9cWKstetiPlHV98QmIeyMdJoUueITuR5ge2AkQCtgo3qGDA/6Dv4MLY9j",
    "CqBxQLalYOE3IuKHWOvtC94DVyEpKpr/pCS8WAtoe54DL06+1dvyTo6M/UKye2nh",
    "IjJakzlqCjSb5VVPIgDOf7iBmnQmZXo4EGH+rElCFBydTtVcot9BtgxD/UwEHfLm",
    "P6xo+rXCuND+XnJeVwex/Ovjgv7MchIUaxmgfh5OT7502zFvQX6A6bx0VW0wUxL3",
    "SJ7am5ECgYEA7ECT3WAO9miWZH+Vt1XZfMwF7v9gVqkc/yj1Bs+n83Kibq8a/3JA",
    "r8K1kjiQJ8v5OlCs7K9bJs0IWbpQRua12KxZ6+XXSHXVP7G6cY9/FQa/RPqXLEuH",
    "GOlw4jA763NF3/9NtzLkw8haiCUzb1CtKw4hLDGyoKadwwhm4+A3I+MCgYEAzyh2",
    "D36mPX4Obq7TVMM4w0rOrvi5fPQmNEsvd/i3J8MXUmlE1yOh14Du+bW0ny9DKMgt",
    "zdvm3/Bwx6MR0i2QJ75oV93SJABtGJQzOJ4eGKD/BdRyuNqMYSbeMQlDa7n6fdS1",
    "pmg2+rzatoBIiOGfoumcL89i1Z5MWjwX9NQb0a8CgYBz0TSr0euD4MHZgrJirjNw",
    "epRuFcOkuEL+05VLQYGUVx5KJI2XrOsJPurEQ/ZnjBch/2rGnTCSVPFDC5NPLsr2",
    "7YcnngVsAFgKYZaFFVO3exdJOY/ipyQTkl1EhWDajCg1J3Nx3AFJ+W5oT9RnPaWm",
    "9cZNZA+tsgClG/lUvRZLAQKBgBFNjd7pczU7rDTugVRZIgqd2vmeaM/ZDL/db8+T",
    "hKjbkL0fcdKOdVwstslAth99sRxc7AZ/0Z7u1Fy4cCqgB6RqMQj1zDGZn4MoDccy",
    "3cys1eBEyHhMOOF8f56U6X68AAI2nB2UItN6psILoQNd5RmUbalIpza0jCgVUOLw",
    "PIqdAoGBALTgqb/D/BLKEewI5fk6x8D6xNWQFJiIo/JUf5C7zjP/u6YyhC81vDlw",
    "D94LjRrV8xXJYDD92KsJhsm6NguFz8knHxx8L6gsFlhrP9es6oJdFJp6b4P+oWc+",
    "bvbc8y0Fg4uSDdxdR+mKL/dROUVycdMLCAGOt859aOg2ynAghyhu",
];

fn app() -> String {
    let (begin, end) = ("BEGIN RSA PRIVATE KEY", "END RSA PRIVATE KEY");
    let key = format!("-----{begin}-----\n{}\n-----{end}-----\n", KEY.join("\n"));
    json!({ "app_id": 7, "private_key": key }).to_string()
}

/// A forge that gives out `ghs_1`, `ghs_2` and so on, and a git host that takes only the newest of
/// them after `stale` was asked once.
async fn forge(stale: bool) -> StandIn {
    let given = AtomicU32::new(0);
    let is_stale = Arc::new(std::sync::atomic::AtomicBool::new(stale));
    StandIn::start(move |asked: &Asked| -> Said {
        let json = "application/json";
        match &*asked.what {
            "GET /api/repos/octo/pearl/installation" => {
                (200, json, json!({ "id": 42 }).to_string())
            }
            "POST /api/app/installations/42/access_tokens" => {
                let number = given.fetch_add(1, Ordering::Relaxed) + 1;
                let token = json!({ "token": format!("ghs_{number}"),
                    "expires_at": "2099-01-01T00:00:00Z" });
                (201, json, token.to_string())
            }
            _ if is_stale.swap(false, Ordering::Relaxed) => (401, "text/plain", String::new()),
            _ => git_host(asked),
        }
    })
    .await
}

async fn session(world: &World, host: &StandIn) -> String {
    let ada = world.somebody().await;
    let secret = json!({ "name": "app", "scope": { "git": host.address.to_string() },
        "value": app() });
    let set = world.say(&ada, Method::PUT, "/v1/secrets", secret).await;
    assert_eq!(set.status, 200, "{set:?}");
    let url = format!("http://{}/octo/pearl", host.address);
    let made = json!({ "repos": [{ "url": url }] });
    let made = world.post(&ada, "/v1/sessions", made).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{id}/resume");
    world.post(&ada, &path, json!({})).await;
    id
}

async fn world(host: &StandIn) -> World {
    let mut git = git_config(host);
    git.forges = vec![Forge {
        host: host.address.to_string(),
        api: format!("http://{}/api", host.address),
    }];
    World::with(doors::models::Config::default(), git).await
}

fn times(host: &StandIn, what: &str) -> usize {
    let asked = host.asked();
    asked.iter().filter(|asked| asked.what == what).count()
}

const TOKENS: &str = "POST /api/app/installations/42/access_tokens";

#[tokio::test]
async fn an_app_gets_a_token_for_the_one_repository_and_keeps_it() {
    let host = forge(false).await;
    let world = world(&host).await;
    let id = session(&world, &host).await;
    for _ in 0..2 {
        assert_eq!(fetched(&world, &host, &id).await, (200, "ghs_1".to_owned()));
    }
    assert_eq!(times(&host, TOKENS), 1);
    let asked = host.asked();
    let asked = asked.iter().find(|asked| asked.what == TOKENS).unwrap();
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!(body, json!({ "repositories": ["pearl"] }));
    let signed = asked.token().strip_prefix("Bearer ").unwrap();
    let claims = signed.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(claims["iss"], "7");
    let lasts = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert!((1..=600).contains(&lasts), "{claims}");
    let der = STANDARD.decode(KEY.concat()).unwrap();
    assert!(!String::from_utf8_lossy(&asked.body).contains(&STANDARD.encode(der)));
}

#[tokio::test]
async fn a_token_that_the_host_does_not_take_any_more_is_got_anew() {
    let host = forge(true).await;
    let world = world(&host).await;
    let id = session(&world, &host).await;
    assert_eq!(fetched(&world, &host, &id).await, (200, "ghs_2".to_owned()));
    assert_eq!(times(&host, TOKENS), 2);
}
