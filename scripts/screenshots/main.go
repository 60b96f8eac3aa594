// Command screenshots takes pictures of an HTML page in a headless Chromium, in both themes and three widths, for
// people to look at: of the page that "sample report" makes, for example.
//
//	go run ./scripts/screenshots PAGE.html FOLDER
//
// It needs a Chromium: apt-get install chromium-headless-shell.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: screenshots PAGE.html FOLDER")
		os.Exit(2)
	}
	if err := take(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func take(page, folder string) error {
	page, err := filepath.Abs(page)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	browser, err := chromium()
	if err != nil {
		return err
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser), chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate("file://"+page)); err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(page), filepath.Ext(page))
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{380, 1200, 1900} {
			to := filepath.Join(folder, fmt.Sprintf("%s-%s-%d.png", name, theme, width))
			if err := shoot(ctx, theme, width, to); err != nil {
				return err
			}
			fmt.Println(to)
		}
	}
	return nil
}

// shoot takes a picture of the whole page.
func shoot(ctx context.Context, theme string, width int64, to string) error {
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	if err != nil {
		return err
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	return os.WriteFile(to, picture, 0o666)
}

func chromium() (string, error) {
	for _, name := range []string{"chromium-headless-shell", "headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium is installed; run apt-get install chromium-headless-shell")
}
