package idem

import (
	"reflect"
	"testing"
)

func TestParseNodes(t *testing.T) {
	t.Parallel()
	const (
		a  = "aa 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-5460\n"
		b  = "bb 127.0.0.1:7002@17002,host master - 0 0 2 connected 5461-10922 [93-<-aa]\n"
		a2 = "cc 127.0.0.1:7003@17003 slave aa 0 0 1 connected\n"
		b2 = "dd 127.0.0.1:7004@17004 slave bb 0 0 2 connected\n"
	)
	for name, tt := range map[string]struct {
		text string
		want Cluster
	}{
		"all well":             {a + b + a2 + b2, Cluster{Nodes: 4}},
		"no replica":           {a + b + a2, Cluster{Nodes: 3, Alone: []string{"127.0.0.1:7002"}}},
		"a replica is down":    {a + b + a2 + "dd 127.0.0.1:7004@17004 slave,fail bb 0 0 2 disconnected\n", Cluster{Nodes: 4, Down: []string{"127.0.0.1:7004"}, Alone: []string{"127.0.0.1:7002"}}},
		"a master may be down": {a + a2 + b2 + "bb 127.0.0.1:7002@17002 master,fail? - 0 0 2 disconnected 5461-10922\n", Cluster{Nodes: 4, Down: []string{"127.0.0.1:7002"}}},
		"a master was taken over": {a + a2 + "bb 127.0.0.1:7002@17002 master,fail - 0 0 2 disconnected\ndd 127.0.0.1:7004@17004 master - 0 0 3 connected 5461-10922\n",
			Cluster{Nodes: 4, Down: []string{"127.0.0.1:7002"}, Alone: []string{"127.0.0.1:7004"}}},
		"a master without keys": {a + a2 + "bb 127.0.0.1:7002@17002 master - 0 0 2 connected\n", Cluster{Nodes: 3}},
		"nothing":               {"", Cluster{}},
		"something else":        {"hello\n", Cluster{}},
	} {
		if got := parseNodes(tt.text); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
