//go:build !unix

package mapped

func dropPages([]byte) {}
