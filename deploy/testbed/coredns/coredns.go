//go:build testbed

// Package coredns names what `make testbed` builds, so that go.sum has the sums of all that it needs.
package coredns

import (
	_ "github.com/coredns/coredns"
)
