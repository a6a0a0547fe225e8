//go:build testbed

// Package kwok names the command that `make testbed` builds, so that go.sum has the sums of all that it needs.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
