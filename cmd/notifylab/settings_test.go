package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSettings_shown_and_switched(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	is := func(r *running, idempotency, lease, key string) {
		t.Helper()
		r.wantStatus(0)
		want := [][]string{{"setting", "now", "needed on by", "needed off by"}, {"idempotency", idempotency, "idempotency, crash-claim, claim-lease"}, {"claim-lease", lease, "claim-lease"}, {"provider-key", key}}
		lines := r.lines()
		if len(lines) != len(want) || r.errorText() != "" {
			t.Fatal(r.all())
		}
		for i, cells := range want {
			rest := lines[i]
			for _, cell := range cells {
				_, after, found := strings.Cut(rest, cell)
				if !found {
					t.Errorf("line %d: want %q in order\n%s", i+1, cells, r.all())
				}
				rest = after
			}
		}
	}
	is(c.run("settings"), "off", "off", "off")
	is(c.run("settings", "set", "idempotency=on", "claim-lease=TRUE", "idempotency=1"), "on", "on", "off")
	is(c.run("flags"), "on", "on", "off")
	is(c.run("settings", "set", "claim-lease=0", "provider-key=on"), "on", "off", "on")
	if got := c.store().HGetAll(patience(t), c.key("lab:flags")).Val(); got["claim-lease"] != "off" || got["idempotency"] != "on" || got["provider-key"] != "on" {
		t.Errorf("lab:flags is %v", got)
	}
	all := c.look("name", "settings")
	if len(all) != 3 || all["idempotency"]["on"] != true || all["claim-lease"]["on"] != false || all["idempotency"]["kind"] != "setting" ||
		!slices.Contains(all["claim-lease"]["needed_on"].([]any), any("claim-lease")) || !slices.Contains(all["idempotency"]["needed_off"].([]any), any("crash")) ||
		!slices.Contains(all["provider-key"]["needed_on"].([]any), any("provider-key")) {
		t.Errorf("got %v", all)
	}
	one := c.run("settings", "provider-key", "-o", "json")
	one.wantStatus(0)
	if o := one.objects(); len(o) != 1 || o[0]["name"] != "provider-key" || o[0]["on"] != true {
		t.Errorf("got %v", o)
	}
	if all := c.look("name", "settings", "set", "idempotency=off"); len(all) != 3 || all["idempotency"]["on"] != false {
		t.Errorf("set says %v", all)
	}
	if all := c.look("name", "settings", "reset"); all["provider-key"]["on"] != false {
		t.Errorf("reset says %v", all)
	}
	is(c.run("settings"), "off", "off", "off")
}

func TestLooks_wrong_usage(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	const settings = "there are idempotency, claim-lease, provider-key"
	for args, parts := range map[string][]string{
		"settings idempotncy":                        {`"idempotncy"`, settings, "did you mean idempotency?"},
		"settings resett":                            {`"resett"`, "did you mean reset?"},
		"settings claim-lease=on":                    {"to switch: notifylab settings set claim-lease=on"},
		"settings idempotency claim-lease":           {"settings [NAME]"},
		"settings set":                               {"set what?", "idempotency, claim-lease, provider-key"},
		"settings set idempotency":                   {"want idempotency=on or idempotency=off"},
		"settings set idempotency=maybe":             {"idempotency=maybe", "want idempotency=on or"},
		"settings set clam-lease=on":                 {`"clam-lease"`, settings, "did you mean claim-lease?"},
		"settings set idempotency=on clam-lease=off": {`"clam-lease"`},
		"settings reset now":                         {`"now"`},
		"settings --wach":                            {"--wach", "did you mean --watch?"},
		"records --state dne":                        {"--state", `"dne"`, "claimed, pending, done", "did you mean done?"},
		"records extra":                              {`"extra"`},
		"queues extra":                               {`"extra"`},
		"events --since yesterday":                   {"--since", `"yesterday"`, "5m"},
		"events --limit 0":                           {"--limit 0", "at least 1"},
		"events extra":                               {`"extra"`},
		"reset extra":                                {`"extra"`},
		"reset":                                      {"--yes"},
		"doctor --management-url u:S3cr3t@x":         {"--management-url"},
		"healthcheck":                                {"which URL?"},
		"healthcheck ftp://x":                        {"http://HOST:PORT/PATH"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := c
			c.t = t
			c.wantUsage(strings.Fields(args), parts...)
		})
	}
}

func TestLooks_servers_away(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for _, args := range []string{"settings", "settings -w", "settings set idempotency=on", "settings reset", "records", "events", "events -f -o json", "queues", "reset --yes"} {
		t.Run("Redis, "+args, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, "redis://u:S3cr3t@"+nowhere)
			r := c.run(strings.Fields(args)...)
			r.wantStatus(exitUnavailable)
			wantAway(t, r, "Redis does not answer at "+nowhere+": ", "S3cr3t")
		})
	}
	for _, args := range []string{"queues", "queues -w -o json", "reset --yes"} {
		t.Run("RabbitMQ, "+args, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, "amqp://u:S3cr3t@"+nowhere, shared.redis)
			r := c.run(strings.Fields(args)...)
			r.wantStatus(exitUnavailable)
			wantAway(t, r, "RabbitMQ does not answer at "+nowhere+": ", "S3cr3t")
		})
	}
}
