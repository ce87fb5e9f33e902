// Small pictures of the images that were sent from this tab, so that they can be recognised later. The service
// does not return images, and the tab forgets the pictures when it is closed, as it does the key.

const PLACE = "smoothcert.pictures";
const MOST = 60;    // certifications
const FIRST = 4;    // images of each
const LARGEST = 64; // pixels; a smaller image is kept as it is, so that it can be sent again
const LONGEST = 40_000;  // characters of such an image

const read = () => {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE)) ?? [];
  } catch {
    return [];
  }
};

export const forgetPictures = () => sessionStorage.removeItem(PLACE);

// The picture of an image: its address, and whether it is only a picture and not the file that was sent.
export const kept = (id, index) => read().find((each) => each.id === id)?.pictures[index] ?? {};

export async function keep(id, chosen) {
  if (chosen[0].sample !== undefined) return;  // the service has it
  const pictures = await Promise.all(chosen.slice(0, FIRST).map(({ url }) => shrunk(url)));
  const others = read().filter((each) => each.id !== id).slice(0, MOST - 1);
  try {
    sessionStorage.setItem(PLACE, JSON.stringify([{ id, pictures }, ...others]));
  } catch {  // no room, or not allowed: they are known until the page is closed
    forgetPictures();
  }
}

function shrunk(url) {
  return new Promise((resolve) => {
    const image = new Image();
    image.onerror = () => resolve({});
    image.onload = () => {
      const scale = Math.min(1, LARGEST / Math.max(image.naturalWidth, image.naturalHeight));
      if (scale === 1 && url.length <= LONGEST) return resolve({ url, small: false });
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight].map((each) => Math.max(1, Math.round(each * scale)));
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      resolve({ url: canvas.toDataURL("image/png"), small: true });
    };
    image.src = url;
  });
}
