//go:build !linux

package main

import "testing"

func (c corner) startAlone([]string, ...string) *running { return nil }

func skipUnlessAlone(t *testing.T) {
	t.Helper()
	t.Skip("needs network namespaces, which only Linux has")
}

func enterAlone() bool { return false }
